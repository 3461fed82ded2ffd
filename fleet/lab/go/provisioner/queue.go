package main

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	workers = 8
	// Keys of the queue: what is to be looked at, and its name.
	claimKey, volumeKey, foldersKey = "claim:", "volume:", "folders:"
	nodeKey, podKey                 = "node:", "pod:"
)

type provisioner struct {
	client    kubernetes.Interface
	root      string
	simulated bool

	queue                                 workqueue.TypedRateLimitingInterface[string]
	claims, volumes, classes, nodes, pods cache.Store

	// Of simulated nodes.
	addresses addresses
	renewed   sync.Map // by the UID of a node: when its lease was
}

// run serves the cluster until the context ends: whatever changes is looked at, and what fails is tried again.
func (p *provisioner) run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(p.client, 10*time.Minute)
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	volumes := factory.Core().V1().PersistentVolumes().Informer()
	classes := factory.Storage().V1().StorageClasses().Informer()
	p.claims, p.volumes, p.classes = claims.GetStore(), volumes.GetStore(), classes.GetStore()

	limits := workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 5*time.Second)
	queue := workqueue.NewTypedRateLimitingQueue(limits)
	p.queue = queue
	look := func(kind string) cache.ResourceEventHandlerFuncs {
		add := func(obj any) {
			if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
				queue.Add(kind + key)
			}
		}
		gone := func(any) { queue.Add(foldersKey) }
		return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }, DeleteFunc: gone}
	}
	if _, err := claims.AddEventHandler(look(claimKey)); err != nil {
		return err
	}
	if _, err := volumes.AddEventHandler(look(volumeKey)); err != nil {
		return err
	}
	if p.simulated {
		nodes, pods := factory.Core().V1().Nodes().Informer(), factory.Core().V1().Pods().Informer()
		p.nodes, p.pods = nodes.GetStore(), pods.GetStore()
		if _, err := nodes.AddEventHandler(look(nodeKey)); err != nil {
			return err
		}
		looks := look(podKey)
		looks.DeleteFunc = func(obj any) {
			if last, unseen := obj.(cache.DeletedFinalStateUnknown); unseen {
				obj = last.Obj
			}
			if pod, known := obj.(*corev1.Pod); known {
				p.addresses.release(string(pod.UID))
			}
		}
		if _, err := pods.AddEventHandler(looks); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	queue.Add(foldersKey)
	context.AfterFunc(ctx, queue.ShutDown)

	var working sync.WaitGroup
	for range workers {
		working.Go(func() { p.work(ctx, queue) })
	}
	working.Wait()
	return nil
}

func (p *provisioner) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string]) {
	for {
		key, stopped := queue.Get()
		if stopped {
			return
		}
		if err := p.reconcile(ctx, key); err != nil {
			klog.ErrorS(err, "Not done, trying again", "key", key)
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

func (p *provisioner) reconcile(ctx context.Context, key string) error {
	if name, found := strings.CutPrefix(key, claimKey); found {
		obj, exists, err := p.claims.GetByKey(name)
		if err != nil || !exists {
			return err
		}
		return p.reconcileClaim(ctx, obj.(*corev1.PersistentVolumeClaim))
	}
	if name, found := strings.CutPrefix(key, volumeKey); found {
		obj, exists, err := p.volumes.GetByKey(name)
		if err != nil || !exists {
			return err
		}
		return p.reconcileVolume(ctx, obj.(*corev1.PersistentVolume))
	}
	if name, found := strings.CutPrefix(key, nodeKey); found {
		obj, exists, err := p.nodes.GetByKey(name)
		if err != nil || !exists {
			return err
		}
		return p.playNode(ctx, obj.(*corev1.Node))
	}
	if name, found := strings.CutPrefix(key, podKey); found {
		obj, exists, err := p.pods.GetByKey(name)
		if err != nil || !exists {
			return err
		}
		return p.playPod(ctx, obj.(*corev1.Pod))
	}
	return p.removeForgotten(ctx)
}

func (p *provisioner) reconcileClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Spec.StorageClassName == nil || claim.DeletionTimestamp != nil {
		return nil
	}
	if claim.Spec.VolumeName != "" {
		obj, exists, err := p.volumes.GetByKey(claim.Spec.VolumeName)
		if err != nil || !exists {
			return err
		}
		return p.grow(ctx, claim, obj.(*corev1.PersistentVolume))
	}
	obj, exists, err := p.classes.GetByKey(*claim.Spec.StorageClassName)
	if err != nil || !exists {
		return err
	}
	return p.provision(ctx, claim, obj.(*storagev1.StorageClass))
}

func (p *provisioner) reconcileVolume(ctx context.Context, volume *corev1.PersistentVolume) error {
	if volume.Annotations[provisionedBy] != Name || volume.DeletionTimestamp != nil {
		return nil
	}
	if volume.Status.Phase == corev1.VolumeReleased {
		return p.reclaim(ctx, volume)
	}
	return p.show(volume)
}
