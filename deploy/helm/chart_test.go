package helm

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const chartDir, root = "quorate", "../.."

// monitor is a ServiceMonitor with the fields that the chart sets. Its types are not part of Kubernetes.
type monitor struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		JobLabel  string             `json:"jobLabel"`
		Selector  meta.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// release is what the chart renders for a set of values.
type release struct {
	sets     map[string]*apps.StatefulSet
	services map[string]*core.Service
	config   string
	ingress  *networking.Ingress
	budgets  []*policy.PodDisruptionBudget
	monitor  *monitor
}

// valuesOf reads a set of values in the chart's folder ci.
func valuesOf(t *testing.T, name string) chartutil.Values {
	t.Helper()
	values, err := chartutil.ReadValuesFile(filepath.Join(chartDir, "ci", name+"-values.yaml"))
	require.NoError(t, err)
	return values
}

// template renders the chart as helm template does.
func template(t *testing.T, values chartutil.Values) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load(chartDir)
	require.NoError(t, err)
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "main", Namespace: "test", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// render renders the chart and decodes each manifest strictly: an unknown or duplicate field is an error.
func render(t *testing.T, values chartutil.Values) release {
	t.Helper()
	files, err := template(t, values)
	require.NoError(t, err)
	r := release{sets: make(map[string]*apps.StatefulSet), services: make(map[string]*core.Service)}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for name, content := range files {
		for _, document := range regexp.MustCompile(`(?m)^---\s*$`).Split(content, -1) {
			if strings.TrimSpace(document) == "" {
				continue
			}
			if strings.Contains(document, "kind: ServiceMonitor") {
				r.monitor = new(monitor)
				require.NoError(t, yaml.UnmarshalStrict([]byte(document), r.monitor), document)
				continue
			}
			object, _, err := decoder.Decode([]byte(document), nil, nil)
			require.NoError(t, err, "%s:\n%s", name, document)
			switch o := object.(type) {
			case *apps.StatefulSet:
				r.sets[o.Name] = o
			case *core.Service:
				r.services[o.Name] = o
			case *core.ConfigMap:
				r.config = o.Data["quorate.yaml"]
			case *core.Secret:
				r.config = o.StringData["quorate.yaml"]
			case *networking.Ingress:
				r.ingress = o
			case *policy.PodDisruptionBudget:
				r.budgets = append(r.budgets, o)
			default:
				t.Fatalf("%s: unexpected %T", name, o)
			}
		}
	}
	return r
}

func TestLint(t *testing.T) {
	for _, name := range []string{"single", "postgres", "everything"} {
		for _, message := range lint.AllWithKubeVersion(chartDir, valuesOf(t, name), "test", nil).Messages {
			require.Less(t, message.Severity, support.WarningSev, "%s: %s", name, message)
		}
	}
}

// All references in the chart exist: labels, ports, volumes and services.
func TestManifests(t *testing.T) {
	quorate := build(t)
	for name, want := range map[string][]string{
		"single":     {"main-quorate 1"},
		"postgres":   {"main-quorate 2"},
		"everything": {"main-quorate-api 3", "main-quorate-ingest 2", "main-quorate-sign 2"},
	} {
		t.Run(name, func(t *testing.T) {
			r := render(t, valuesOf(t, name))
			var got []string
			for _, set := range slices.Sorted(maps.Keys(r.sets)) {
				got = append(got, fmt.Sprintf("%s %d", set, *r.sets[set].Spec.Replicas))
				r.checkSet(t, r.sets[set])
				checkConfig(t, quorate, r.config, r.sets[set])
			}
			require.Equal(t, want, got)
			for _, service := range r.services {
				r.checkService(t, service)
			}
			if name != "everything" {
				require.Nil(t, r.ingress)
				require.Nil(t, r.monitor)
				require.Empty(t, r.budgets)
				return
			}
			r.checkIngress(t)
			require.Len(t, r.budgets, 3)
			for _, b := range r.budgets {
				require.Equal(t, r.sets[b.Name].Spec.Selector, b.Spec.Selector)
			}
			selector, err := meta.LabelSelectorAsSelector(&r.monitor.Spec.Selector)
			require.NoError(t, err)
			for _, service := range r.services {
				require.Equal(t, service.Name == "main-quorate-private", selector.Matches(labels.Set(service.Labels)), service.Name)
			}
			require.Equal(t, r.services["main-quorate-private"].Spec.Ports[0].Name, r.monitor.Spec.Endpoints[0].Port)
		})
	}
}

func (r release) checkSet(t *testing.T, set *apps.StatefulSet) {
	t.Helper()
	require.Contains(t, r.services, set.Spec.ServiceName)
	selector, err := meta.LabelSelectorAsSelector(set.Spec.Selector)
	require.NoError(t, err)
	for _, other := range r.sets {
		require.Equal(t, other == set, selector.Matches(labels.Set(other.Spec.Template.Labels)), "%s selects pods of %s", set.Name, other.Name)
	}
	pod := set.Spec.Template.Spec
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.False(t, *pod.EnableServiceLinks, "Kubernetes would set unknown variables QUORATE_*")
	container := pod.Containers[0]
	ports := make(map[string]int32)
	for _, port := range container.Ports {
		ports[port.Name] = port.ContainerPort
	}
	for _, probe := range []*core.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		require.EqualValues(t, 8081, ports[probe.HTTPGet.Port.StrVal])
	}
	ready := "/health" // /readyz fails if one of several networks does
	if set.Spec.Template.Labels["app.kubernetes.io/component"] == "all" && *set.Spec.Replicas == 1 {
		ready = "/healthz" // it answers from the index while no network can sign
	}
	require.Equal(t, ready, container.ReadinessProbe.HTTPGet.Path)
	var volumes []string
	for _, v := range pod.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		volumes = append(volumes, claim.Name)
	}
	for _, m := range container.VolumeMounts {
		require.Contains(t, volumes, m.Name)
	}
	require.Len(t, container.VolumeMounts, len(volumes))
}

// checkService requires that a service selects pods that have its ports.
func (r release) checkService(t *testing.T, service *core.Service) {
	t.Helper()
	selected := 0
	for _, set := range r.sets {
		if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(set.Spec.Template.Labels)) {
			continue
		}
		selected++
		for _, port := range service.Spec.Ports {
			require.True(t, slices.ContainsFunc(set.Spec.Template.Spec.Containers[0].Ports, func(p core.ContainerPort) bool { return p.Name == port.TargetPort.StrVal }), "%s: %s", service.Name, port.Name)
		}
	}
	if service.Spec.ClusterIP == core.ClusterIPNone {
		require.Len(t, r.sets, selected)
	} else {
		require.Equal(t, 1, selected, service.Name)
	}
}

// checkIngress requires that requests reach processes whose role answers them.
func (r release) checkIngress(t *testing.T) {
	t.Helper()
	to := make(map[string]string)
	for _, path := range r.ingress.Spec.Rules[0].HTTP.Paths {
		backend := path.Backend.Service
		require.Contains(t, r.services, backend.Name)
		require.Equal(t, r.services[backend.Name].Spec.Ports[0].Name, backend.Port.Name)
		to[path.Path] = backend.Name
	}
	require.Equal(t, map[string]string{"/": "main-quorate-api", "/v1/signatureAggregator": "main-quorate-sign", "/aggregate-signatures": "main-quorate-sign"}, to)
}

// build builds the program.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "quorate")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/quorate")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// checkConfig requires that quorate config check accepts the configuration in the environment of a process, and that the
// process has its role and its store.
func checkConfig(t *testing.T, quorate, config string, set *apps.StatefulSet) {
	t.Helper()
	require.NotEmpty(t, config)
	file := filepath.Join(t.TempDir(), "quorate.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	container := set.Spec.Template.Spec.Containers[0]
	check := exec.CommandContext(t.Context(), quorate, "config", "check", "--config", file)
	check.Env = []string{"HOME=" + t.TempDir()}
	for _, variable := range container.Env {
		switch {
		case strings.HasPrefix(variable.Name, "QUORATE_TLS_"): // the files are not here
		case variable.ValueFrom != nil:
			check.Env = append(check.Env, variable.Name+"=postgres://quorate@"+variable.ValueFrom.SecretKeyRef.Key+"/quorate")
		default:
			check.Env = append(check.Env, variable.Name+"="+variable.Value)
		}
	}
	var out bytes.Buffer
	check.Stdout, check.Stderr = &out, &out
	require.NoError(t, check.Run(), "%s\n%s", config, &out)
	require.Regexp(t, `(?m)^role\s+`+set.Labels["app.kubernetes.io/component"]+`\s`, out.String())
	require.Regexp(t, `(?m)^listen\s+0\.0\.0\.0:8080\s`, out.String())
	require.Regexp(t, `(?m)^private_listen\s+0\.0\.0\.0:8081\s`, out.String())
	require.Equal(t, []string{"serve", "--config", "/etc/quorate/quorate.yaml"}, container.Args)
}

// Values that cannot work are refused with what to do.
func TestRefusals(t *testing.T) {
	networks := map[string]any{"networks": map[string]any{"fuji": map[string]any{"nodes": []any{"http://a:9650"}}}}
	for _, test := range []struct {
		values chartutil.Values
		want   string
	}{
		{chartutil.Values{}, "config.networks is empty"},
		{chartutil.Values{"config": networks, "replicas": 2}, "replicas above 1 needs PostgreSQL"},
		{chartutil.Values{"config": networks, "roles": map[string]any{"sign": map[string]any{"replicas": 1}}}, "roles needs PostgreSQL"},
		{chartutil.Values{"config": networks, "ingress": map[string]any{"enabled": true}}, "ingress.host is empty"},
		{chartutil.Values{"config": networks, "replica": 2}, "replica"},
	} {
		_, err := template(t, test.values)
		require.ErrorContains(t, err, test.want)
	}
}

// The chart runs the program's version.
func TestVersion(t *testing.T) {
	chart, err := loader.Load(chartDir)
	require.NoError(t, err)
	source, err := os.ReadFile(root + "/cmd/quorate/version.go")
	require.NoError(t, err)
	require.Contains(t, string(source), `const version = "`+chart.Metadata.AppVersion+`"`)
}
