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

const AUDIENCE = "api://AzureADTokenExchange";

interface Props {
  readonly mount: string;
  readonly engine: Engine | undefined;
  readonly config: Resource<EngineConfig>;
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

/** Log-in without a secret: what is set up here, and what the application at Azure needs. */
export function Federation({ mount, engine, config }: Props) {
  const published = useResource(["published"], readPublished);
  const namespaceId = useResource(["namespace id"], readNamespaceId);
  const settings = config.value;
  const accessor = engine?.mount?.accessor;
  const issuer = published.value?.discovery.issuer ?? "";
  const audience = settings?.identity_token_audience || AUDIENCE;
  const subject = accessor && namespaceId.value ? `plugin-identity:${namespaceId.value}:secret:${accessor}` : null;
  const isOn = settings !== undefined && settings.identity_token_audience !== "";
  return (
    <Loaded resource={published} label="The identity issuer">
      {({ keys }) => {
        const problem = issuerProblem(issuer);
        return (
          <div class="credentials-columns">
            <Card title="What the application at Azure needs">
              <p class="muted">
                Add a federated credential with exactly these values to the application
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
                  ["Audience", <Copied key="audience" text={audience} label="the audience" />],
                ]}
              />
              {subject && (
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
                    : `The engine ${mount} logs in with a client secret. Set the federation audience in its configuration, and the client secret to nothing.`}
                </Check>
                <Check tone={problem ? "warn" : "ok"} word={problem ? "Not reachable" : "Issuer is public"}>
                  {problem ?? "The issuer is an https address. Azure has to reach its two documents."}
                </Check>
                <Check tone={keys.length > 0 ? "ok" : "bad"} word={keys.length > 0 ? "Keys published" : "No keys"}>
                  {plural(keys.length, "key")}: {keys.map(({ kid }) => kid).join(", ")}
                </Check>
                <Check tone={accessor ? "ok" : "off"} word={accessor ? "Subject known" : "Subject hidden"}>
                  The subject is the mount's for life. Disabling and enabling the engine changes it.
                </Check>
              </ul>
              <p class="muted small">
                Issuing credentials is the whole check: a log-in that Azure refuses is answered with its reason.
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
