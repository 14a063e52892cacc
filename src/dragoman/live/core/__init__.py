"""The live core: one job, one synchronous walk from its submission to its end."""
