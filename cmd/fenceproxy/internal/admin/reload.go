package admin

import (
	"encoding/json"
	"net/http"
)

// ReloadPage is POST /reload. reload reads the configuration again; its report is shown as JSON, and its error is what is
// wrong with the configuration.
func ReloadPage(reload func() (report any, err error)) Page {
	return Page{Pattern: "POST /reload", Handler: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" { // a page in an operator's browser
			text(w, http.StatusForbidden, "not for browsers\n")
			return
		}
		report, err := reload()
		if err != nil {
			text(w, http.StatusUnprocessableEntity, err.Error()+"\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		json.NewEncoder(w).Encode(report)
	}}
}
