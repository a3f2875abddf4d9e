import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "https",
  upstream: "webhook",
  label: "HTTPS",
  about: "Any API that takes a value by one HTTPS request",
  fields: {
    url: {
      label: "URL",
      help: "Path and query may have {{ .Name }}. The host must be listed in the setting SYNC_ALLOWED_HOSTS.",
      required: true,
      fixed: true,
      placeholder: "https://api.example.com/secrets/{{ .Name }}",
    },
    method: { label: "Method", help: "Left empty: PUT.", choices: { PUT: "PUT", POST: "POST", PATCH: "PATCH" } },
    headers: { label: "Headers", help: "Such as authorization.", secret: true },
    body: {
      label: "Body",
      help: "With {{ .Name | json }} and {{ .Value | json }}; also url, base64 and raw. Left empty: both as JSON.",
      rows: 4,
    },
    content_type: { label: "Content type", help: "Left empty: application/json.", advanced: true },
    success_pointer: {
      label: "Success pointer",
      help: "JSON pointer to a member of the answer that is true on success, such as /success.",
      advanced: true,
    },
    delete_method: {
      label: "Delete method",
      help: "Left empty: DELETE.",
      advanced: true,
      choices: { DELETE: "DELETE", POST: "POST", PUT: "PUT", PATCH: "PATCH", none: "None: objects stay" },
    },
    delete_url: { label: "Delete URL", help: "Left empty: the URL.", advanced: true },
    delete_body: { label: "Delete body", help: "With {{ .Name | json }}. Left empty: none.", advanced: true, rows: 3 },
    inspect_url: {
      label: "Inspect URL",
      help: "Answers GET with an ETag, or a version in JSON. Needed for policies other than replace, and for drift.",
      advanced: true,
    },
    version_pointer: { label: "Version pointer", help: "Without an ETag. Left empty: /version.", advanced: true },
    probe_url: { label: "Probe URL", help: "Answers GET with 2xx to valid credentials.", advanced: true },
    signing_secret: {
      label: "Signing secret",
      help: "whsec_ and base64: requests are signed by Standard Webhooks.",
      secret: true,
      advanced: true,
    },
  },
  example: {
    url: "https://api.example.com/secrets/{{ .Name }}",
    headers: { authorization: "Bearer made-up-token" },
  },
  sampleName: "vault/kv_1a2b3c4d/app/database",
  login: "headers of your own, or a signature",
  federation: false,
  reads: "version",
  effect: "immediate",
  limits: "64 KiB a value, 256 KiB a request, names of 512 characters",
  permissions: ["those of the API", "the same"],
} as const satisfies DestinationDescription;
