// The provisioner makes node-bound volumes for the real nodes of a lab's cluster: a claim whose pod was scheduled to a
// node gets a disk of its size there, which fills, grows with its claim, and goes with it. For simulated nodes, which
// mount nothing, it makes the objects only.
//
// A disk is a file below --root, one folder per node, that a loop device shows to the kubelet; the kubelet mounts it
// and grows the file system on it, as it does with any local volume. Names come from the claim's UID and every step
// can be repeated, so a provisioner that was killed between any two goes on where it was.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

func main() {
	p := &provisioner{}
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the cluster")
	flag.StringVar(&p.root, "root", "", "directory that holds one folder of disks per node")
	flag.BoolVar(&p.simulated, "simulated", false, "make the objects only: simulated nodes mount nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, p, *kubeconfig); err != nil {
		klog.ErrorS(err, "Ended")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

func serve(ctx context.Context, p *provisioner, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "fleet-lab-provisioner"
	config.QPS, config.Burst = 200, 400 // a hundred claims at once are nothing unusual in a test
	if p.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if !p.simulated {
		// As the kernel names it: what a device shows is known by its path.
		if err := os.MkdirAll(p.root, 0o755); err != nil {
			return err
		}
		if p.root, err = filepath.EvalSymlinks(p.root); err != nil {
			return err
		}
	}
	return p.run(ctx)
}
