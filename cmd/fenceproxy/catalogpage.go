package main

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/admin"
)

// shownCatalog is what GET /catalog tells of a database.
type shownCatalog struct {
	Database   string       `json:"database"`
	Generation uint64       `json:"generation"` // 0: not read yet
	Error      string       `json:"error,omitempty"`
	Fences     []shownFence `json:"fences,omitempty"`
}

type shownFence struct {
	Name      string   `json:"name"`
	Children  []string `json:"children,omitempty"`
	Views     []string `json:"views,omitempty"`
	Functions []string `json:"functions,omitempty"`
}

func (p *proxy) catalogPage() admin.Page {
	return admin.Page{Pattern: "GET /catalog", Handler: func(w http.ResponseWriter, _ *http.Request) {
		list := []shownCatalog{}
		for _, d := range p.databases() {
			c := shownCatalog{Database: d.Name()}
			if d.Err() != nil {
				c.Error = "the last look failed: see the log"
			}
			if s := d.Snapshot(); s != nil {
				c.Generation = s.Generation
				for _, f := range s.Fences {
					shown := shownFence{Name: f.Fence, Children: dotted(f.Children()), Views: dotted(f.Views())}
					for _, fn := range f.Functions {
						shown.Functions = append(shown.Functions, fn.String())
					}
					c.Fences = append(c.Fences, shown)
				}
			}
			list = append(list, c)
		}
		b, err := json.Marshal(list)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		fmt.Fprintf(w, "%s\n", b)
	}}
}

func dotted(names [][2]string) (list []string) {
	for _, n := range names {
		list = append(list, n[0]+"."+n[1])
	}
	return list
}
