// Package provisioner makes node-bound volumes for the lab's clusters: a claim whose pod was
// scheduled to a node gets a directory of that node, and loses it when the claim is deleted.
// Directories live below --root, one folder per node, so nothing outlives the lab's own files.
package provisioner

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	// Name is what a StorageClass of the lab names as its provisioner.
	Name         = "lab.fleet.dev/node-volume"
	selectedNode = "volume.kubernetes.io/selected-node"
	provisioned  = "pv.kubernetes.io/provisioned-by"
)

type provisioner struct {
	client    kubernetes.Interface
	root      string
	simulated bool
}

// NewCommand returns the program that serves one cluster until its context ends.
func NewCommand(ctx context.Context) *cobra.Command {
	p := &provisioner{}
	var kubeconfig string
	cmd := &cobra.Command{
		Use:          "provisioner",
		Short:        "Provision node-bound volumes of a lab cluster",
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return err
			}
			config.UserAgent = "fleet-lab-provisioner"
			if p.client, err = kubernetes.NewForConfig(config); err != nil {
				return err
			}
			return p.run(ctx)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	cmd.Flags().StringVar(&p.root, "root", "", "directory that holds one folder of volumes per node")
	cmd.Flags().BoolVar(&p.simulated, "simulated", false, "make the objects only: simulated nodes mount nothing")
	return cmd
}

func (p *provisioner) run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(p.client, 10*time.Minute)
	claims := factory.Core().V1().PersistentVolumeClaims()
	volumes := factory.Core().V1().PersistentVolumes()
	classes := factory.Storage().V1().StorageClasses()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 10*time.Second))
	enqueue := func(kind string) cache.ResourceEventHandlerFuncs {
		add := func(obj any) {
			if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
				queue.Add(kind + ":" + key)
			}
		}
		return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }}
	}
	if _, err := claims.Informer().AddEventHandler(enqueue("claim")); err != nil {
		return err
	}
	if _, err := volumes.Informer().AddEventHandler(enqueue("volume")); err != nil {
		return err
	}
	classes.Informer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	go func() {
		<-ctx.Done()
		queue.ShutDown()
	}()
	for {
		key, stopped := queue.Get()
		if stopped {
			return nil
		}
		if err := p.reconcile(ctx, key, claims.Informer().GetStore(), volumes.Informer().GetStore(), classes.Informer().GetStore()); err != nil {
			klog.ErrorS(err, "Not reconciled, trying again", "key", key)
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

func (p *provisioner) reconcile(ctx context.Context, key string, claims, volumes, classes cache.Store) error {
	if name, found := cut(key, "claim:"); found {
		obj, exists, err := claims.GetByKey(name)
		if err != nil || !exists {
			return err
		}
		claim := obj.(*corev1.PersistentVolumeClaim)
		if claim.Spec.StorageClassName == nil || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
			return nil
		}
		class, exists, err := classes.GetByKey(*claim.Spec.StorageClassName)
		if err != nil || !exists {
			return err
		}
		return p.provision(ctx, claim, class)
	}
	name, _ := cut(key, "volume:")
	obj, exists, err := volumes.GetByKey(name)
	if err != nil || !exists {
		return err
	}
	return p.reclaim(ctx, obj.(*corev1.PersistentVolume))
}
