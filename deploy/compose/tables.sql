CREATE TABLE invoices (id int PRIMARY KEY, paid int NOT NULL, by text NOT NULL);
INSERT INTO invoices VALUES (1, 0, 'nobody');
