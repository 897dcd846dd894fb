"""From a model and what the cluster shows to a status. Pure: the same situation always gives the same words."""
