"""The operator in a world that misbehaves: crashes, stale views, two at once, an API server that goes away."""
