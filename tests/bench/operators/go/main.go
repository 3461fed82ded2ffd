// The benchmark's work with controller-runtime: one child ConfigMap and one status per object, then a probe of each
// member every interval. What is so already is not written again; both writes are server-side applies.
//
//	operator KUBECONFIG CONTEXT NAMESPACE ENGINE INTERVAL
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	manager = "controller-runtime"
	workers = 16
)

var version = schema.GroupVersion{Group: "bench.fleet.dev", Version: "v1"}

// Thing is the benchmark's kind.
type Thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec    `json:"spec,omitempty"`
	Status            *Status `json:"status,omitempty"`
}

type Spec struct {
	Text    string `json:"text"`
	Members int    `json:"members"`
}

type Status struct {
	Text    string `json:"text"`
	Healthy int    `json:"healthy"`
}

// ThingList is a list of them.
type ThingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Thing `json:"items"`
}

func (t *Thing) DeepCopyInto(out *Thing) {
	*out = *t
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if t.Status != nil {
		status := *t.Status
		out.Status = &status
	}
}

func (t *Thing) DeepCopyObject() runtime.Object {
	out := new(Thing)
	t.DeepCopyInto(out)
	return out
}

func (l *ThingList) DeepCopyObject() runtime.Object {
	out := &ThingList{TypeMeta: l.TypeMeta, Items: make([]Thing, len(l.Items))}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}

type reconciler struct {
	client.Client
	probes   *http.Client
	engine   string
	interval time.Duration
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	thing := &Thing{}
	if err := r.Get(ctx, request.NamespacedName, thing); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.makeChild(ctx, thing); err != nil {
		return ctrl.Result{}, err
	}
	healthy := thing.Spec.Members
	if thing.Status != nil {
		var err error
		if healthy, err = r.probe(ctx, thing); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.tell(ctx, thing, Status{Text: thing.Spec.Text, Healthy: healthy}); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.interval}, nil
}

func (r *reconciler) makeChild(ctx context.Context, thing *Thing) error {
	data := map[string]string{"text": thing.Spec.Text}
	found := &corev1.ConfigMap{}
	err := r.Get(ctx, types.NamespacedName{Namespace: thing.Namespace, Name: thing.Name}, found)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && equality.Semantic.DeepEqual(found.Data, data) && metav1.IsControlledBy(found, thing) {
		return nil
	}
	owner := metaac.OwnerReference().WithAPIVersion(version.String()).WithKind("Thing").WithName(thing.Name).
		WithUID(thing.UID).WithController(true).WithBlockOwnerDeletion(true)
	child := coreac.ConfigMap(thing.Name, thing.Namespace).WithOwnerReferences(owner).WithData(data)
	return r.Apply(ctx, child, client.FieldOwner(manager), client.ForceOwnership)
}

func (r *reconciler) tell(ctx context.Context, thing *Thing, status Status) error {
	if thing.Status != nil && *thing.Status == status {
		return nil
	}
	wanted := &Thing{
		TypeMeta:   metav1.TypeMeta{APIVersion: version.String(), Kind: "Thing"},
		ObjectMeta: metav1.ObjectMeta{Name: thing.Name, Namespace: thing.Namespace, UID: thing.UID},
		Status:     &status,
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": wanted.APIVersion, "kind": wanted.Kind, "status": status,
		"metadata": map[string]any{"name": wanted.Name, "namespace": wanted.Namespace, "uid": wanted.UID},
	})
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.ApplyPatchType, raw)
	return r.Status().Patch(ctx, wanted, patch, client.FieldOwner(manager), client.ForceOwnership)
}

// probe asks each member whether it is healthy.
func (r *reconciler) probe(ctx context.Context, thing *Thing) (int, error) {
	healthy := 0
	for range thing.Spec.Members {
		url := r.engine + "/v3/maintenance/status"
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
		if err != nil {
			return 0, err
		}
		response, err := r.probes.Do(request)
		if err != nil {
			return 0, err
		}
		var answer struct {
			Errors []string `json:"errors"`
		}
		err = json.NewDecoder(response.Body).Decode(&answer)
		response.Body.Close()
		if err != nil {
			return 0, err
		}
		if len(answer.Errors) == 0 {
			healthy++
		}
	}
	return healthy, nil
}

func run(kubeconfig, context, namespace, engine, interval string) error {
	seconds, err := strconv.ParseFloat(interval, 64)
	if err != nil {
		return err
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return err
	}
	config.QPS = -1 // none of the sides limits itself
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	scheme.AddKnownTypes(version, &Thing{}, &ThingList{})
	metav1.AddToGroupVersion(scheme, version)
	options := ctrl.Options{Scheme: scheme, Logger: logr.Discard()}
	options.Metrics.BindAddress = "0"
	options.Cache = cache.Options{
		DefaultNamespaces: map[string]cache.Config{namespace: {}},
		DefaultTransform:  cache.TransformStripManagedFields(),
	}
	ctrl.SetLogger(logr.Discard())
	operator, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = workers
	reconcile := &reconciler{
		Client:   operator.GetClient(),
		probes:   &http.Client{Transport: transport},
		engine:   engine,
		interval: time.Duration(seconds * float64(time.Second)),
	}
	err = ctrl.NewControllerManagedBy(operator).
		For(&Thing{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile)
	if err != nil {
		return err
	}
	return operator.Start(ctrl.SetupSignalHandler())
}

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "operator KUBECONFIG CONTEXT NAMESPACE ENGINE INTERVAL")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
