"""keygrasp's ROS 2 nodes: parameters and message conversion around the library, which never imports ROS."""
