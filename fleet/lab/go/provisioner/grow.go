package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// grow gives a volume the size that its claim asks for meanwhile: the disk, then the claim's status, which allows the
// kubelet to grow the file system, and last the object's capacity, which tells it to. Before the last step is done all
// of them are due again. Where no kubelet is, the claim has its new capacity at once.
func (p *provisioner) grow(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error {
	size, current := wanted(claim), volume.Spec.Capacity[corev1.ResourceStorage]
	bound := volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID == claim.UID
	if volume.Annotations[provisionedBy] != Name || !bound || claim.Status.Phase != corev1.ClaimBound {
		return nil
	}
	if p.simulated {
		return p.growObjects(ctx, claim, volume, size)
	}
	if size.Cmp(current) <= 0 {
		return nil
	}
	disk, err := p.diskOf(volume)
	if err != nil {
		return err
	}
	if err := disk.grow(size.Value()); err != nil {
		return err
	}
	if err := p.updateStatus(ctx, claim, pending(claim.Status, size)); err != nil {
		return err
	}
	if err := p.setCapacity(ctx, volume, size); err != nil {
		return err
	}
	klog.InfoS("Grown", "claim", klog.KObj(claim), "volume", volume.Name, "size", size.String())
	return nil
}

func (p *provisioner) growObjects(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, size resource.Quantity) error {
	if current := volume.Spec.Capacity[corev1.ResourceStorage]; size.Cmp(current) > 0 {
		if err := p.setCapacity(ctx, volume, size); err != nil {
			return err
		}
	}
	if current := claim.Status.Capacity[corev1.ResourceStorage]; size.Cmp(current) <= 0 {
		return nil
	}
	status := *claim.Status.DeepCopy()
	status.Capacity = corev1.ResourceList{corev1.ResourceStorage: size}
	return p.updateStatus(ctx, claim, status)
}

// pending says what the kubelet looks for before it grows a file system.
func pending(status corev1.PersistentVolumeClaimStatus, size resource.Quantity) corev1.PersistentVolumeClaimStatus {
	result := *status.DeepCopy()
	result.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: size}
	result.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizePending,
	}
	result.Conditions = []corev1.PersistentVolumeClaimCondition{{
		Type:               corev1.PersistentVolumeClaimFileSystemResizePending,
		Status:             corev1.ConditionTrue,
		LastTransitionTime: metav1.Now(),
		Message:            "The disk has grown; the node grows the file system while a pod uses it.",
	}}
	return result
}

// Both carry the resourceVersion of what was read: of two writers one reads again.

func (p *provisioner) updateStatus(ctx context.Context, claim *corev1.PersistentVolumeClaim, status corev1.PersistentVolumeClaimStatus) error {
	changed := claim.DeepCopy()
	changed.Status = status
	_, err := p.client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return err
}

func (p *provisioner) setCapacity(ctx context.Context, volume *corev1.PersistentVolume, size resource.Quantity) error {
	changed := volume.DeepCopy()
	changed.Spec.Capacity[corev1.ResourceStorage] = size
	_, err := p.client.CoreV1().PersistentVolumes().Update(ctx, changed, metav1.UpdateOptions{})
	return err
}
