// One binary for everything a lab cluster runs: it acts as the program it is called by
// (a symbolic link named kube-apiserver, etcd, kubectl, …) or as its first argument says.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var programs = map[string]func() *cobra.Command{
	"kube-apiserver":          kubeapiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
	// It handles signals itself; a second handler would panic.
	"kubelet": func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, known := programs[name]; !known && name != "etcd" && len(os.Args) > 1 {
		name, os.Args = os.Args[1], os.Args[1:]
	}
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	if program, known := programs[name]; known {
		if name == "kubectl" {
			if err := cli.RunNoErrOutput(program()); err != nil {
				kubectlutil.CheckErr(err) // prints as kubectl does, and exits
			}
			return
		}
		os.Exit(cli.Run(program()))
	}
	names := []string{"etcd"}
	for known := range programs {
		names = append(names, known)
	}
	sort.Strings(names)
	fmt.Fprintf(os.Stderr, "unknown program %q; this binary is: %s\n", name, strings.Join(names, ", "))
	os.Exit(2)
}
