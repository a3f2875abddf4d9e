import { ApiError, api, isDenied, wireRequest } from "../../api/client.ts";
import { caller } from "../../api/session.ts";
import { ErrorPanel, Lacking } from "../../components/error-panel.tsx";
import { Countdown } from "../../components/moments.tsx";
import { Card, Page, Properties } from "../../components/page.tsx";
import { Loading } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { useResource } from "../../lib/resource.ts";
import { plural } from "../../lib/text.ts";
import { minute } from "../../lib/time.ts";
import { Areas } from "./areas.tsx";
import { Checklist } from "./checklist.tsx";
import { Figures } from "./figures.ts";
import {
  type Finding,
  findingsOfCaller,
  findingsOfFigures,
  findingsOfHealth,
  findingsOfNotifications,
  waiting,
  worstFirst,
} from "./findings.ts";
import { useOwnRights } from "./own-rights.ts";
import { Upkeep } from "./upkeep.tsx";

const EVERY_MS = 10_000;
const ACTIVE = "GET /v1/sys/notifications/active";
const ROOT = { namespace: "" };

/** Is everything well, what waits, what failed, what ends soon. */
export default function OverviewScreen() {
  const health = useResource(
    ["health"],
    (signal) => api("GET /v1/sys/health", { signal, accept: [501, 503], anonymous: true, namespace: "" }),
    { everyMs: EVERY_MS },
  );
  // The version in the health is the one of Vault's API, for its clients.
  const release = useResource(["release"], (signal) =>
    api("GET /v1/sys/version", { signal, quiet: true, namespace: "" }),
  );
  const figures = useResource(["metrics"], readFigures, { everyMs: EVERY_MS });
  const rights = useOwnRights();
  const maySeeActive = rights.may("sys/notifications/active", "read");
  const notified = useResource(
    ["overview-notifications"],
    async (signal) => (await api(ACTIVE, { ...ROOT, quiet: true, signal })).data.active,
    { everyMs: EVERY_MS, skip: !maySeeActive },
  );
  const seen = figures.value instanceof Figures ? figures.value : undefined;
  const unseen: Unseen[] = [];
  if (figures.value instanceof ApiError) unseen.push(["The figures of the deployment", figures.value]);
  if (rights.isKnown && !maySeeActive)
    unseen.push(["Active notifications", new ApiError(403, [], wireRequest(ACTIVE, ROOT))]);
  const isNotified = notified.value !== undefined && notified.error === null;
  const isJudged = rights.isKnown && (!maySeeActive || notified.value !== undefined || notified.error !== null);
  // Of a failed repetition the last answer stays, which is no news.
  const isSeen = health.value !== undefined && health.error === null && seen !== undefined && figures.error === null;
  const findings = worstFirst([
    ...(health.value ? findingsOfHealth(health.value) : []),
    ...(seen ? findingsOfFigures(seen) : []),
    ...findingsOfNotifications(notified.value ?? []),
    ...findingsOfCaller(caller.value, minute.value),
  ]);
  return (
    <Page
      title="Overview"
      about={
        health.value &&
        [health.value.cluster_name, release.value && `version ${release.value.version}`].filter(Boolean).join(", ")
      }
    >
      {health.error !== null && <ErrorPanel error={health.error} onRetry={health.reload} />}
      {health.value && isJudged && (figures.value || figures.error !== null || findings.length > 0) ? (
        <Verdict findings={findings} isWhole={isSeen && isNotified} unseen={unseen} />
      ) : (
        health.error === null && figures.error === null && <Loading label="Reading the health" />
      )}
      {notified.error !== null && (
        <ErrorPanel error={notified.error} onRetry={notified.reload} title="Active notifications could not be read" />
      )}
      {seen && <Areas figures={seen} />}
      {figures.error !== null && (
        <ErrorPanel error={figures.error} onRetry={figures.reload} title="The figures could not be read" />
      )}
      <div class="overview-columns">
        <div class="stack">
          <Findings
            title="Needs attention"
            findings={findings}
            none={
              isSeen
                ? "Nothing. Failures of sync, leases, nodes, volumes and delivery would be listed here."
                : figures.isLoading && !figures.value
                  ? "Reading …"
                  : "Not known: failures of sync, leases, nodes, volumes and delivery cannot be seen."
            }
          />
          {seen && <Findings title="Waiting" findings={waiting(seen)} none="Nothing is under way." />}
          {rights.may("sys/snapshot", "sudo") && <Upkeep />}
        </div>
        <div class="stack">
          <Checklist />
          <Card title="Your token">
            {caller.value && (
              <Properties
                items={[
                  ["Name", caller.value.name],
                  ["Ends", caller.value.expires === null ? "never" : <Countdown to={caller.value.expires} />],
                  ["Policies", caller.value.policies.join(", ")],
                  ["Namespace", caller.value.namespace || "root"],
                ]}
              />
            )}
          </Card>
          <Card title="More">
            <ul class="overview-links">
              <li>
                <a href="/docs" target="_blank" rel="noreferrer">
                  API documentation
                </a>
              </li>
              <li>
                <a href="/v1/openapi.json" target="_blank" rel="noreferrer">
                  OpenAPI document
                </a>
              </li>
              <li class="muted">
                Metrics for Prometheus: <code>/v1/metrics</code>, with a token that has{" "}
                <code>agent {'{ policy = "read" }'}</code>
              </li>
            </ul>
          </Card>
        </div>
      </div>
    </Page>
  );
}

/** The refusal for a caller without either of the two rights that show them. */
async function readFigures(signal: AbortSignal): Promise<Figures | ApiError> {
  const query = { format: "json" } as const;
  try {
    return new Figures(
      await api("GET /v1/metrics", { query, namespace: "default", signal }).catch((failure: unknown) => {
        if (!isDenied(failure)) throw failure;
        return api("GET /v1/sys/metrics", { query, namespace: "", signal });
      }),
    );
  } catch (failure) {
    if (isDenied(failure)) return failure;
    throw failure;
  }
}

/** A part of the picture, and the refusal of its read. */
type Unseen = readonly [what: string, refusal: ApiError];

interface VerdictProps {
  readonly findings: readonly Finding[];
  /** Whether everything was read. */
  readonly isWhole: boolean;
  readonly unseen: readonly Unseen[];
}

function Verdict({ findings, isWhole, unseen }: VerdictProps) {
  const bad = findings.filter(({ tone }) => tone === "bad").length;
  const warnings = findings.length - bad;
  const parts = [bad > 0 ? `${bad} failing` : "", warnings > 0 ? plural(warnings, "warning") : ""].filter(Boolean);
  return (
    <div class="overview-verdict">
      {findings.length === 0 ? (
        <Status tone={isWhole ? "ok" : "off"}>{isWhole ? "Everything works" : "Not everything can be seen"}</Status>
      ) : (
        <Status tone={bad > 0 ? "bad" : "warn"}>{parts.join(", ")}</Status>
      )}
      {unseen.map(([what, refusal]) => (
        <div key={what} class="muted">
          <Lacking refusal={refusal} what={what} />
        </div>
      ))}
    </div>
  );
}

function Findings({
  title,
  findings,
  none,
}: {
  readonly title: string;
  readonly findings: readonly Finding[];
  readonly none: string;
}) {
  return (
    <Card title={title} flush>
      {findings.length === 0 ? (
        <p class="overview-none muted">{none}</p>
      ) : (
        <ul class="overview-findings">
          {findings.map(({ tone, word, text, href: address }) => (
            <li key={text}>
              <Status tone={tone}>{word}</Status>
              {address ? <a href={address}>{text}</a> : <span>{text}</span>}
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
