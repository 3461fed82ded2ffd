package main

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

const (
	// Name is what a StorageClass of the lab names as its provisioner.
	Name          = "lab.fleet.dev/node-volume"
	selectedNode  = "volume.kubernetes.io/selected-node"
	provisionedBy = "pv.kubernetes.io/provisioned-by"
)

// provision makes the volume of a claim: first its disk, then the object that says so. A disk is made here and nowhere
// else: one that was lost later stays lost.
func (p *provisioner) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	node := claim.Annotations[selectedNode]
	if class.Provisioner != Name || node == "" {
		return nil
	}
	if claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		klog.InfoS("Left alone: only volumes with a file system are provisioned here", "claim", klog.KObj(claim))
		return nil
	}
	name := volumeName(claim)
	if _, exists, err := p.volumes.GetByKey(name); err != nil || exists {
		return err
	}
	size := wanted(claim)
	disk := disk{folder: filepath.Join(p.root, node, name)}
	if !p.simulated {
		if err := disk.create(ctx, size.Value()); err != nil {
			return err
		}
		if err := disk.attach(); err != nil {
			return err
		}
	}
	fileSystem := fileSystem
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: Name}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: size},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: *class.ReclaimPolicy,
			StorageClassName:              class.Name,
			VolumeMode:                    claim.Spec.VolumeMode,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: disk.link(), FSType: &fileSystem},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
	_, err := p.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err == nil {
		klog.InfoS("Provisioned", "claim", klog.KObj(claim), "volume", name, "node", node, "size", size.String())
	}
	return err
}

func volumeName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// wanted is the size that a claim asks for, or the smallest that a file system fits in.
func wanted(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.Value() < smallest {
		return *resource.NewQuantity(smallest, resource.BinarySI)
	}
	return size
}
