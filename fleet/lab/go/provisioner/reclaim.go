package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// show attaches the disk of a volume where that is not so: after a reboot.
func (p *provisioner) show(volume *corev1.PersistentVolume) error {
	if p.simulated {
		return nil
	}
	disk, err := p.diskOf(volume)
	if err != nil {
		return err
	}
	if !disk.exists() {
		klog.InfoS("The disk is lost", "volume", volume.Name)
		return nil
	}
	return disk.attach()
}

// reclaim removes the disk and the object of a released volume, in that order: a crash between the two leaves an
// object that is found again. While a node still has it mounted it stays, and is tried again.
func (p *provisioner) reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	if volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	if !p.simulated {
		disk, err := p.diskOf(volume)
		if err != nil {
			return err
		}
		if err := disk.remove(); err != nil {
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

// removeForgotten removes the disks that nobody knows: their claims went before there was a volume, or somebody
// deleted the volume.
func (p *provisioner) removeForgotten(ctx context.Context) error {
	if p.simulated {
		return nil
	}
	folders, err := filepath.Glob(filepath.Join(p.root, "*", "pvc-*"))
	if err != nil {
		return err
	}
	claimed := map[string]bool{}
	for _, obj := range p.claims.List() {
		claimed[volumeName(obj.(*corev1.PersistentVolumeClaim))] = true
	}
	for _, folder := range folders {
		name := filepath.Base(folder)
		if _, exists, err := p.volumes.GetByKey(name); err != nil || exists || claimed[name] {
			continue
		}
		// What was read may be old, and data does not come back: ask.
		if _, err := p.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			if err != nil {
				return err
			}
			continue
		}
		if err := (disk{folder: folder}).remove(); err != nil {
			return err
		}
		klog.InfoS("Removed a disk that nobody knows", "folder", folder)
	}
	return nil
}

func (p *provisioner) diskOf(volume *corev1.PersistentVolume) (disk, error) {
	if volume.Spec.Local == nil {
		return disk{}, fmt.Errorf("volume %s is not of this provisioner", volume.Name)
	}
	folder := filepath.Dir(volume.Spec.Local.Path)
	if relative, err := filepath.Rel(p.root, folder); err != nil || strings.HasPrefix(relative, "..") {
		return disk{}, fmt.Errorf("volume %s is at %s, outside %s: left alone", volume.Name, folder, p.root)
	}
	return disk{folder: folder}, nil
}
