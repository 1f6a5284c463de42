"""How the Rerun viewer shows the graph: the scene in 3D, beside it the camera, the arm and what the pick did."""

from __future__ import annotations

from typing import Any

from keygrasp.extras import require
from keygrasp_ros.rerun_scene import DEPTH_IMAGE, OBSERVER_IMAGE, ROBOT, SUMMARY, TIMELINE, WORLD

#: Where the scene is first looked at from, and what is looked at, in metres in the workspace frame.
_EYE, _TARGET = (0.47, -0.79, 0.58), (-0.24, -0.04, 0.27)
_BACKGROUND = (24, 28, 36)


def layout(*, plain: bool = False) -> Any:
    """The blueprint.

    Args:
        plain: Leave the viewer's own bars out, as for a picture.
    """
    rrb = require("rerun.blueprint", "viz")
    scene = rrb.Spatial3DView(
        origin="/",
        contents=[f"/{WORLD}/**", f"/{ROBOT}/**"],
        name="Scene",
        background=_BACKGROUND,
        line_grid=rrb.LineGrid3D(visible=True, spacing=0.05, stroke_width=0.5, color=(120, 124, 132, 90)),
        eye_controls=rrb.EyeControls3D(position=_EYE, look_target=_TARGET, eye_up=(0.0, 0.0, 1.0)),
    )
    return rrb.Blueprint(
        rrb.Horizontal(
            scene,
            rrb.Vertical(
                rrb.Spatial2DView(origin=DEPTH_IMAGE, name="Camera"),
                rrb.Spatial2DView(origin=OBSERVER_IMAGE, name="Observer"),
                rrb.TextDocumentView(origin=SUMMARY, name="Last pick"),
                row_shares=[3, 3, 5],
            ),
            column_shares=[7, 3],
        ),
        rrb.TopPanel(state="hidden" if plain else "expanded"),
        rrb.TimePanel(timeline=TIMELINE, state="hidden" if plain else "collapsed"),
        rrb.BlueprintPanel(state="hidden" if plain else "collapsed"),
        rrb.SelectionPanel(state="hidden" if plain else "collapsed"),
    )
