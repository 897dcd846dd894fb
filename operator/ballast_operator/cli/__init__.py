"""`kubectl ballast`: the questions that people have about their objects, answered from the cluster or offline."""
