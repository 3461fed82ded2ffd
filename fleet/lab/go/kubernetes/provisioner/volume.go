package provisioner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

func cut(key, prefix string) (string, bool) { return strings.CutPrefix(key, prefix) }

// provision makes the volume of a claim. The name comes from the claim's UID, so a second try after a
// crash finds the first one's directory and object instead of making another.
func (p *provisioner) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, obj any) error {
	class := obj.(*storagev1.StorageClass)
	node := claim.Annotations[selectedNode]
	if class.Provisioner != Name || node == "" {
		return nil
	}
	name := "pvc-" + string(claim.UID)
	directory := filepath.Join(p.root, node, name)
	if !p.simulated {
		if err := os.MkdirAll(directory, 0o777); err != nil {
			return err
		}
		// The umask must not keep a pod that runs as another user out of its own volume.
		if err := os.Chmod(directory, 0o777); err != nil {
			return err
		}
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisioned: Name}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: *class.ReclaimPolicy,
			StorageClassName:              class.Name,
			VolumeMode:                    claim.Spec.VolumeMode,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: directory}},
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
		klog.InfoS("Provisioned", "claim", klog.KObj(claim), "volume", name, "node", node)
	}
	return err
}

// reclaim removes the directory and the object of a released volume, in that order: a crash between
// the two leaves an object that is found again, never a directory that nobody knows.
func (p *provisioner) reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	if volume.Annotations[provisioned] != Name || volume.Status.Phase != corev1.VolumeReleased ||
		volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || volume.DeletionTimestamp != nil {
		return nil
	}
	directory := volume.Spec.Local.Path
	if relative, err := filepath.Rel(p.root, directory); err != nil || strings.HasPrefix(relative, "..") {
		return fmt.Errorf("volume %s is at %s, outside %s: left alone", volume.Name, directory, p.root)
	}
	if !p.simulated {
		if err := os.RemoveAll(directory); err != nil {
			return err
		}
	}
	err := p.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &volume.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		klog.InfoS("Reclaimed", "volume", volume.Name)
	}
	return err
}
