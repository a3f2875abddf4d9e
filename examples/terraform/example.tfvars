team = "shop"

secrets = {
  "app/database" = "{\"username\":\"shop\",\"password\":\"replace-me\"}"
}

# `in-mem` keeps the copies in the service itself: to try it out without an account.
destinations = {
  trial = { type = "in-mem", settings = "{}" }
}

associations = [
  { destination = "trial", secret = "app/database" },
]
