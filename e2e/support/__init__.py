"""What scenarios stand on: a cluster seen through kubectl, an operator process, a proxy that misbehaves, the audit log."""
