// Package upstream finds out which of several PostgreSQL servers sessions are to go to (target_session_attrs). A proxy
// cannot do what libpq does, which logs in and asks: the password is the client's. So it asks with the credentials of the
// control connection, before the client's login begins.
package upstream
