"""Messages between kubelet and the plugin, generated from `kubelet.proto` (`make protos`)."""
