"""Who is who, who is where, who may see what, and whose words are not stored."""
