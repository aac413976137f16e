package conversation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Route is a way to the server.
type Route string

const (
	Direct  Route = "direct"
	Early   Route = "early"
	Late    Route = "late"
	Observe Route = "observe"
	Off     Route = "off"
)

// Enforced says whether fences are enforced on the route.
func (r Route) Enforced() bool { return r == Early || r == Late }

// Script is one conversation.
type Script struct {
	Name    string
	Session []string // startup parameters: name, value, ...; values may hold {n}
	Before  []string // tokens presented by others before the session starts
	Whole   bool     // depends on messages being read together
	Version uint32   // of the protocol, major<<16 | minor; 0 for 3.0
	Below   int      // major version from which the server answers otherwise; 0 for none
	Opening map[string]string
	Steps   []Step
}

// Step is one action and, for messages, the replies wanted by label.
type Step struct {
	Line int
	Verb string   // "send", or the first word of another line
	Send []string // messages, one per line, for "send"
	Arg  string
	Want map[string]string // "", "direct", "proxy", "early", "late" → replies
}

// Expected picks the replies that a route must see, and says whether they must equal the direct ones byte for byte.
func Expected(wants map[string]string, r Route) (want string, asDirect bool) {
	labels := []string{"direct", ""}
	if r.Enforced() {
		labels = []string{string(r), "proxy", ""}
	}
	for _, label := range labels {
		if want, ok := wants[label]; ok {
			return want, label == "" || label == "direct"
		}
	}
	return "", true
}

// ReadScripts reads a file of conversations.
func ReadScripts(text string) ([]Script, error) {
	var scripts []Script
	names := map[string]string{}
	for i, line := range strings.Split(text, "\n") {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("line %d: %s: %s", i+1, line, fmt.Sprintf(format, args...))
		}
		line = strings.TrimRight(line, " ")
		for name, value := range names {
			line = strings.ReplaceAll(line, "{"+name+"}", value)
		}
		word, rest, _ := strings.Cut(line, " ")
		if word == "" || strings.HasPrefix(word, "#") {
			continue
		}
		if word == "let" {
			name, value, ok := strings.Cut(rest, " = ")
			if !ok {
				return nil, fail("want: let name = text")
			}
			names[name] = value
			continue
		}
		if word == "==" {
			scripts = append(scripts, Script{Name: rest})
			continue
		}
		if len(scripts) == 0 {
			return nil, fail("before the first conversation")
		}
		s := &scripts[len(scripts)-1]
		if word == "session" {
			if rest != "" {
				s.Session = append(s.Session, "fence.token", rest)
			}
			continue
		}
		if word == "startup" {
			name, value, _ := strings.Cut(rest, " ")
			s.Session = append(s.Session, name, value)
			continue
		}
		if err := s.addStep(i+1, word, rest); err != nil {
			return nil, fail("%v", err)
		}
	}
	return scripts, nil
}

func (s *Script) addStep(line int, word, rest string) error {
	var last *Step
	if len(s.Steps) > 0 {
		last = &s.Steps[len(s.Steps)-1]
	}
	switch word {
	case "before":
		s.Before = append(s.Before, rest)
		return nil
	case "whole":
		s.Whole = true
		return nil
	case "protocol":
		major, minor, _ := strings.Cut(rest, ".")
		high, err := strconv.ParseUint(major, 10, 16)
		low, err2 := strconv.ParseUint(minor, 10, 16)
		s.Version = uint32(high<<16 | low)
		return errors.Join(err, err2)
	case "below":
		var err error
		s.Below, err = strconv.Atoi(rest)
		return err
	}
	switch {
	case word == ">":
		if last == nil || last.Verb != "send" || last.Want != nil {
			s.Steps = append(s.Steps, Step{Line: line, Verb: "send"})
			last = &s.Steps[len(s.Steps)-1]
		}
		last.Send = append(last.Send, rest)
	case strings.HasPrefix(word, "<"):
		var wants *map[string]string
		switch {
		case last == nil:
			wants = &s.Opening
		case last.Verb == "send":
			wants = &last.Want
		default:
			return fmt.Errorf("a reply without a message")
		}
		if *wants == nil {
			*wants = map[string]string{}
		}
		label := word[1:]
		switch label {
		case "", "direct", "proxy", "early", "late":
		default:
			return fmt.Errorf("unknown label %q", label)
		}
		if _, twice := (*wants)[label]; twice {
			return fmt.Errorf("second reply for %q", label)
		}
		(*wants)[label] = rest
	case slices.Contains([]string{"raise", "raise&", "raised", "waiting", "hold", "release", "other"}, word):
		s.Steps = append(s.Steps, Step{Line: line, Verb: word, Arg: rest})
	default:
		return fmt.Errorf("unknown word %q", word)
	}
	return nil
}
