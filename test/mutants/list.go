package main

var mutants = []mutant{}
