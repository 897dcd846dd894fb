"""What scenarios stand on: a cluster seen through kubectl, an operator, a proxy that misbehaves, the audit log."""
