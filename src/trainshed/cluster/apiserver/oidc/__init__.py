"""Users whom OpenID Connect providers vouch for: tokens of the issuers in an AuthenticationConfiguration."""
