package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

// CatalogFailed counts a look into a database's catalog that failed.
func (m *Metrics) CatalogFailed() { m.catalogErrors.Inc() }

// maxCatalogs bounds the databases that have series of their own.
const maxCatalogs = 100

// RegisterCatalogs exposes the databases that are watched, which are those that have sessions, in the order of read.
func (m *Metrics) RegisterCatalogs(read func() []*catalog.Watched) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, append([]string{"database"}, labels...), nil)
	}
	m.Registry.MustRegister(&catalogs{
		read: read,
		generation: desc("catalog_generation",
			"Number of the catalog's content that sessions are judged by; another number, another content; 0 as long as there is none."),
		names: desc("catalog_names", "What the catalog adds to the configuration: partitions and children, views, functions.", "kind"),
	})
}

type catalogs struct {
	read              func() []*catalog.Watched
	generation, names *prometheus.Desc
}

func (c *catalogs) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.generation
	ch <- c.names
}

func (c *catalogs) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	list := c.read()
	for _, d := range list[:min(len(list), maxCatalogs)] {
		s := d.Snapshot()
		if s == nil {
			send(c.generation, 0, d.Name())
			continue
		}
		children, views, functions := 0, 0, 0
		for _, f := range s.Fences {
			children, views, functions = children+len(f.Children()), views+len(f.Views()), functions+len(f.Functions)
		}
		send(c.generation, float64(s.Generation), d.Name())
		send(c.names, float64(children), d.Name(), "child")
		send(c.names, float64(views), d.Name(), "view")
		send(c.names, float64(functions), d.Name(), "function")
	}
}
