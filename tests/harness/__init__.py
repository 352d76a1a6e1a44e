"""What stories of several rooms share."""
