// Command coredns is CoreDNS with the plugins that a cluster needs. The stock program brings the clients of three
// clouds and two tracing services, and takes five times as long to build.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// The order in which a query passes them, whatever the order in the Corefile.
	dnsserver.Directives = []string{"health", "ready", "errors", "loadbalance", "cache", "kubernetes"}
	coremain.Run()
}
