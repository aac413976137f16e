// Package catalog finds out what a configuration's fences mean in a database: which relations they are, what leads to
// them from elsewhere, and what code names them. It only reads, and what it says is as old as its reading: a hint for
// whoever guards text, and a list for people. That nothing writes past a fence is for triggers to hold (package
// triggers).
package catalog
