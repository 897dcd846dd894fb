module ballast.dev/e2e/cluster/fetch

go 1.26.0
