"""What the lab's commands share: the way to a lab, and how things are shown."""
