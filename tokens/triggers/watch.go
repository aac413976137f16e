package triggers

import "slices"

// eventTriggers guard what is created below a guarded table, and tell the proxies that the catalog has changed.
var eventTriggers = []struct{ name, create string }{
	{"fence_ddl_end", "CREATE EVENT TRIGGER fence_ddl_end ON ddl_command_end EXECUTE FUNCTION fence.ddl_end();"},
	{"fence_ddl_drop", "CREATE EVENT TRIGGER fence_ddl_drop ON sql_drop EXECUTE FUNCTION fence.ddl_drop();"},
}

func (p *Plan) watch(c Config, s server) {
	var missing []string
	for _, e := range eventTriggers {
		if !slices.Contains(s.watches, e.name) {
			missing = append(missing, "DROP EVENT TRIGGER IF EXISTS "+e.name+";", e.create)
		}
	}
	p.Watched = len(missing) == 0
	switch {
	case p.Watched || !c.Watch:
	case s.superuser:
		for i := 0; i < len(missing); i += 2 {
			p.step(missing[i]+"\n"+missing[i+1], "the database: create the event trigger that watches DDL (%d of %d)", i/2+1, len(missing)/2)
		}
	default:
		p.Notes = append(p.Notes, "the event triggers that guard new partitions are not there, and only a superuser can make them: "+
			"run init --triggers as one, or again after each new partition")
	}
}
