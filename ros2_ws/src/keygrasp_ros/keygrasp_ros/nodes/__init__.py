"""One module a node; each can also be run alone: ``python -m keygrasp_ros.nodes.pick_server``."""
