import type { ComponentChildren } from "preact";
import { api } from "../../api/client.ts";
import { secretsNamespace } from "../../api/namespaces.ts";
import { Code } from "../../components/code.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { Card, Properties } from "../../components/page.tsx";
import { Loaded } from "../../components/states.tsx";
import { Status, type Tone } from "../../components/status.tsx";
import { type Resource, useResource } from "../../lib/resource.ts";
import { plural } from "../../lib/text.ts";
import { issuerProblem, readPublished } from "./issuer-reads.ts";
import type { Engine, EngineConfig } from "./reads.ts";

interface Props {
  readonly engine: Engine;
  readonly config: Resource<EngineConfig | null>;
}

/** The namespace in the subject of tokens; null when the caller may not see it. */
async function readNamespaceId(signal: AbortSignal): Promise<string | null> {
  const path = secretsNamespace.peek();
  if (path === "") return "root";
  try {
    const [name = "", ...above] = path.replace(/\/$/, "").split("/").reverse();
    const { data } = await api("GET /v1/sys/namespaces/{name}", {
      path: { name },
      namespace: above.reverse().join("/"),
      signal,
      quiet: true,
    });
    return data.id;
  } catch {
    return null;
  }
}

/** Log-in without a secret: what is set up here, and what the provider needs. */
export function Federation({ engine, config }: Props) {
  const { path: mount, type } = engine;
  // Only directories of one provider have a command for it.
  const hasCommand = "client_id" in type.config;
  const published = useResource(["published"], readPublished);
  const namespaceId = useResource(["namespace id"], readNamespaceId);
  const settings = config.value;
  const accessor = engine.mount?.accessor;
  const issuer = published.value?.discovery.issuer ?? "";
  const audience = settings?.identity_token_audience || type.config["identity_token_audience"]?.placeholder || "";
  const subject = accessor && namespaceId.value ? `plugin-identity:${namespaceId.value}:secret:${accessor}` : null;
  const isOn = Boolean(settings?.identity_token_audience);
  return (
    <Loaded resource={published} label="The identity issuer">
      {({ keys }) => {
        const problem = issuerProblem(issuer);
        return (
          <div class="credentials-columns">
            <Card title={`What ${type.label} needs`}>
              <p class="muted">
                Let the identity of the engine trust tokens with exactly these values
                {settings?.client_id ? (
                  <>
                    {" "}
                    <code>{settings.client_id}</code>
                  </>
                ) : null}
                . Case and slashes count.
              </p>
              <Properties
                items={[
                  ["Issuer", <Copied key="issuer" text={issuer} label="the issuer" />],
                  [
                    "Subject",
                    subject ? (
                      <Copied key="subject" text={subject} label="the subject" />
                    ) : (
                      <span class="muted">not shown: your token may not read the mount or the namespace</span>
                    ),
                  ],
                  [
                    "Audience",
                    audience ? (
                      <Copied key="audience" text={audience} label="the audience" />
                    ) : (
                      <span class="muted">the one that you set in the configuration</span>
                    ),
                  ],
                ]}
              />
              {subject && hasCommand && (
                <details class="credentials-az">
                  <summary>As a command of Azure's command line</summary>
                  <Code
                    wrap
                    label="the command of az"
                    text={`az ad app federated-credential create --id ${settings?.client_id || "CLIENT_ID"} --parameters '${JSON.stringify(
                      { name: "sallyport", issuer, subject, audiences: [audience] },
                    )}'`}
                  />
                </details>
              )}
            </Card>
            <Card title="Check">
              <ul class="credentials-checks">
                <Check tone={isOn ? "ok" : "off"} word={isOn ? "Audience set" : "Not in use"}>
                  {isOn
                    ? `The engine ${mount} logs in with an identity token.`
                    : `The engine ${mount} logs in with a secret. Set the identity token audience in its configuration, and the secret to nothing.`}
                </Check>
                <Check tone={problem ? "warn" : "ok"} word={problem ? "Not reachable" : "Issuer is public"}>
                  {problem ?? "The issuer is an https address. The provider has to reach its two documents."}
                </Check>
                <Check tone={keys.length > 0 ? "ok" : "bad"} word={keys.length > 0 ? "Keys published" : "No keys"}>
                  {plural(keys.length, "key")}: {keys.map(({ kid }) => kid).join(", ")}
                </Check>
                <Check tone={accessor ? "ok" : "off"} word={accessor ? "Subject known" : "Subject hidden"}>
                  The subject is the mount's for life. Disabling and enabling the engine changes it.
                </Check>
              </ul>
              <p class="muted small">
                Issuing credentials is the whole check: a log-in that the provider refuses is answered with its reason.
              </p>
            </Card>
          </div>
        );
      }}
    </Loaded>
  );
}

const Copied = ({ text, label }: { readonly text: string; readonly label: string }) => (
  <span class="with-copy">
    <code>{text}</code>
    <CopyButton text={text} label={label} />
  </span>
);

interface CheckProps {
  readonly tone: Tone;
  readonly word: string;
  readonly children: ComponentChildren;
}

const Check = ({ tone, word, children }: CheckProps) => (
  <li>
    <Status tone={tone}>{word}</Status>
    <span class="muted">{children}</span>
  </li>
);
