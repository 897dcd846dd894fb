"""From a model to the objects that it should own. Pure: no clock, no network; a test compares whole objects."""
