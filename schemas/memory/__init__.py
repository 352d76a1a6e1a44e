"""What is known: statements, facts, entities, topics and documents."""
