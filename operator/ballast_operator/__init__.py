"""The operator: from what a user applied to what the cluster runs, and back as conditions."""
