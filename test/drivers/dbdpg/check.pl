# The program of package drivers for Perl's DBD::Pg. Address, database and user come from the environment.
use strict;
use warnings;
use DBI;
use DBD::Pg qw(:async);

$| = 1;

# Prints the SQLSTATE that a piece of work ends with.
sub report {
	my ($check, $dbh, $work) = @_;
	my $ok = eval { $work->(); 1 };
	print "$check: ", $ok ? '00000' : $dbh->state, "\n";
}

sub connect_with {
	my ($options) = @_;
	return DBI->connect("dbi:Pg:options='$options'", '', '', { RaiseError => 1, PrintError => 0, AutoCommit => 1 });
}

my $insert = 'INSERT INTO ledger (note) VALUES (?)';

sub copy_in {
	my ($dbh, $note) = @_;
	$dbh->do('COPY ledger (note) FROM STDIN');
	$dbh->pg_putcopydata("$note\n") for 1 .. 2;
	$dbh->pg_putcopyend();
}

my $bare = connect_with('');
report('no token', $bare, sub { $bare->do($insert, undef, 'no token') });
$bare->do("SET fence.token = '10'");
report('token by SET', $bare, sub { $bare->do($insert, undef, 'token by SET') });

my $old = connect_with('-c fence.token=10');
print 'token at connect: ', $old->selectrow_array("SELECT current_setting('fence.token')"), "\n";
report('write', $old, sub { $old->do("INSERT INTO ledger (note) VALUES ('write')") });
my $prepared = $old->prepare($insert, { pg_prepare_now => 1 });
report('prepared write', $old, sub { $prepared->execute('prepared write') for 1 .. 3 });
report('commit', $old, sub { $old->begin_work; $old->do($insert, undef, 'commit'); $old->commit });
report('rollback', $old, sub { $old->begin_work; $old->do($insert, undef, 'rollback'); $old->rollback });
report('copy in', $old, sub { copy_in($old, 'copy in') });
$old->do("COPY (SELECT note FROM ledger WHERE note = 'write') TO STDOUT");
my $row;
print "copy out: $row" while $old->pg_getcopydata($row) >= 0;

# pg_cancel waits for the statement's end and is true when it was cancelled; the handle has its SQLSTATE.
my $sleeper = connect_with('');
report('cancel', $sleeper, sub {
	$sleeper->do('SELECT pg_sleep(30)', { pg_async => PG_ASYNC });
	my $running = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()";
	select(undef, undef, undef, 0.02) until $old->selectrow_array($running);
	$sleeper->pg_cancel and die $sleeper->state;
});

my $new = connect_with('-c fence.token=20');
print 'takeover: ', $new->selectrow_array("SELECT current_setting('fence.token')"), "\n";

report('stale write', $old, sub { $old->do("INSERT INTO ledger (note) VALUES ('stale write')") });
report('stale prepared write', $old, sub { $prepared->execute('stale prepared write') });
$old->begin_work;
report('stale transaction', $old, sub { $old->do($insert, undef, 'stale transaction') });
report('behind the refusal', $old, sub { $old->selectrow_array('SELECT 1') });
$old->rollback;
report('stale copy in', $old, sub { copy_in($old, 'stale copy in') });
my $late = connect_with('');
report('stale SET', $late, sub { $late->do("SET fence.token = '15'") });
eval { connect_with('-c fence.token=15') };
print 'stale connect: ', DBI->errstr =~ /FATAL:  (.*)/, "\n";
print 'usable after refusal: ', $old->selectrow_array('SELECT 42'), "\n";
report("new holder's write", $new, sub { $new->do($insert, undef, "new holder's write") });
$_->disconnect for $bare, $old, $sleeper, $new, $late;
