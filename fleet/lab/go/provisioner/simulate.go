package main

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/applyconfigurations/coordination/v1"
	meta "k8s.io/client-go/applyconfigurations/meta/v1"
)

// Simulated nodes have nothing behind them. For them the provisioner plays the kubelet: nodes are ready, pods run as
// soon as they have a node, those of Jobs succeed, and what is deleted goes.

const (
	simulatedNode = "lab.fleet.dev/simulated" // a node without this annotation is somebody else's
	leaseSeconds  = 40
	renewal       = 10 * time.Second
)

func isSimulated(node *corev1.Node) bool { return node.Annotations[simulatedNode] == "true" }

func (p *provisioner) playNode(ctx context.Context, node *corev1.Node) error {
	if !isSimulated(node) {
		return nil
	}
	address := p.addresses.take(nodeAddresses, string(node.UID), addressOf(node))
	if !isReady(node) || addressOf(node) != address {
		changed := node.DeepCopy()
		changed.Status.Conditions = nodeConditions(node.Status.Conditions)
		changed.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address},
			{Type: corev1.NodeHostName, Address: node.Name},
		}
		if _, err := p.client.CoreV1().Nodes().UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return err
		}
		for _, obj := range p.pods.List() { // some may have been looked at before their node was known
			if pod := obj.(*corev1.Pod); pod.Spec.NodeName == node.Name {
				p.queue.Add(podKey + pod.Namespace + "/" + pod.Name)
			}
		}
	}
	p.queue.AddAfter(nodeKey+node.Name, renewal)
	return p.renewLease(ctx, node)
}

// renewLease says that the node lives; the node controller calls one unknown that did not say so for a while.
func (p *provisioner) renewLease(ctx context.Context, node *corev1.Node) error {
	if last, renewed := p.renewed.Load(node.UID); renewed && time.Since(last.(time.Time)) < renewal-time.Second {
		return nil
	}
	owner := meta.OwnerReference().WithAPIVersion("v1").WithKind("Node").WithName(node.Name).WithUID(node.UID)
	lease := coordination.Lease(node.Name, corev1.NamespaceNodeLease).WithOwnerReferences(owner).
		WithSpec(coordination.LeaseSpec().WithHolderIdentity(node.Name).WithLeaseDurationSeconds(leaseSeconds).
			WithRenewTime(metav1.NowMicro()))
	options := metav1.ApplyOptions{FieldManager: Name, Force: true}
	var made *coordinationv1.Lease
	made, err := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Apply(ctx, lease, options)
	if err == nil {
		p.renewed.Store(node.UID, made.Spec.RenewTime.Time)
	}
	return err
}

func nodeConditions(before []corev1.NodeCondition) []corev1.NodeCondition {
	now, conditions := metav1.Now(), []corev1.NodeCondition{}
	for _, one := range []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"},
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID"},
		{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "RouteCreated"},
	} {
		one.Message, one.LastHeartbeatTime, one.LastTransitionTime = "simulated", now, now
		for _, old := range before {
			if old.Type == one.Type && old.Status == one.Status {
				one.LastTransitionTime = old.LastTransitionTime
			}
		}
		conditions = append(conditions, one)
	}
	return conditions
}

func isReady(node *corev1.Node) bool {
	for _, one := range node.Status.Conditions {
		if one.Type == corev1.NodeReady {
			return one.Status == corev1.ConditionTrue
		}
	}
	return false
}

func addressOf(node *corev1.Node) string {
	for _, one := range node.Status.Addresses {
		if one.Type == corev1.NodeInternalIP {
			return one.Address
		}
	}
	return ""
}

func (p *provisioner) playPod(ctx context.Context, pod *corev1.Pod) error {
	obj, exists, err := p.nodes.GetByKey(pod.Spec.NodeName)
	if err != nil || !exists || !isSimulated(obj.(*corev1.Node)) {
		return err
	}
	node := obj.(*corev1.Node)
	if pod.DeletionTimestamp != nil {
		at := metav1.NewPreconditionDeleteOptions(string(pod.UID))
		at.GracePeriodSeconds = new(int64)
		err := p.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *at)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	address := addressOf(node)
	if !pod.Spec.HostNetwork {
		address = p.addresses.take(podAddresses, string(pod.UID), pod.Status.PodIP)
	}
	var status corev1.PodStatus
	switch {
	case pod.Status.Phase == corev1.PodPending:
		status = running(pod, address, addressOf(node))
	case pod.Status.Phase == corev1.PodRunning && isOfJob(pod):
		status = succeeded(pod)
	default:
		return nil
	}
	changed := pod.DeepCopy()
	changed.Status = status
	_, err = p.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func running(pod *corev1.Pod, address, host string) corev1.PodStatus {
	status, now := *pod.Status.DeepCopy(), metav1.Now()
	status.Phase, status.StartTime = corev1.PodRunning, &now
	status.PodIP, status.PodIPs = address, []corev1.PodIP{{IP: address}}
	status.HostIP, status.HostIPs = host, []corev1.HostIP{{IP: host}}
	types := []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady}
	for _, gate := range pod.Spec.ReadinessGates {
		types = append(types, gate.ConditionType)
	}
	for _, kind := range types {
		setCondition(&status, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	up := func(container corev1.Container) corev1.ContainerStatus {
		started := true
		return corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true, Started: &started,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}
	}
	status.ContainerStatuses, status.InitContainerStatuses = nil, nil
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, up(container))
	}
	for _, container := range pod.Spec.InitContainers {
		one := up(container)
		if container.RestartPolicy == nil { // else it is a sidecar
			one.Started, one.State = nil, ended(now)
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, one)
	}
	return status
}

func succeeded(pod *corev1.Pod) corev1.PodStatus {
	status, now := *pod.Status.DeepCopy(), metav1.Now()
	status.Phase = corev1.PodSucceeded
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		setCondition(&status, corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: "PodCompleted"})
	}
	for index := range status.ContainerStatuses {
		one, no := &status.ContainerStatuses[index], false
		one.Ready, one.Started, one.State = false, &no, ended(now)
	}
	return status
}

func ended(at metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: at, FinishedAt: at},
	}
}

func setCondition(status *corev1.PodStatus, condition corev1.PodCondition) {
	condition.LastTransitionTime = metav1.Now()
	for index, one := range status.Conditions {
		if one.Type == condition.Type {
			status.Conditions[index] = condition
			return
		}
	}
	status.Conditions = append(status.Conditions, condition)
}

func isOfJob(pod *corev1.Pod) bool {
	for _, owner := range pod.OwnerReferences {
		if owner.Kind == "Job" {
			return true
		}
	}
	return false
}
