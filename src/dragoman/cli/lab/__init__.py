"""What the lab's commands share: finding a lab, and asking it."""
