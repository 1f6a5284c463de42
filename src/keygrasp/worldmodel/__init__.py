"""World models over typed symbols, rewards as code over them, planning, and learning in imagination."""
