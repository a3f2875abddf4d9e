/**
 * Creates or registers a volume: a form made from the schema of the request, with better fields for sizes and
 * capabilities.
 */
import { useState } from "preact/hooks";
import { ApiError, api, type WireRequest, wireRequest } from "../../api/client.ts";
import { clusterNamespace } from "../../api/namespaces.ts";
import { withoutValues } from "../../api/request-log.ts";
import { csiVolumeHref, hostVolumeHref } from "../../app/cluster-links.ts";
import { go } from "../../app/router.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Checkbox, SelectField, TextField } from "../../components/field.tsx";
import { SchemaForm } from "../../components/schema-form.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import type { FormValue } from "../../lib/settings.ts";
import { useNodes } from "../nodes/node-names.tsx";
import { bytesOf, Capabilities, type Capability, FIRST_CAPABILITY, SizeField } from "./fields.tsx";
import { ADVANCED, HIDDEN, schemaOf, TEXTS } from "./volume-schema.ts";

export interface Draft {
  readonly kind: "host" | "csi";
  readonly how: "create" | "register";
  /** Fields that are filled in already, such as `SnapshotID`. */
  readonly value?: FormValue;
}

const TITLES = {
  host: { create: "Create a host volume", register: "Register a directory as a host volume" },
  csi: { create: "Create a CSI volume", register: "Register a volume that the provider has" },
} as const;

export function VolumeDialog({ draft, onClose }: { readonly draft: Draft; readonly onClose: () => void }) {
  const { kind, how } = draft;
  const isHost = kind === "host";
  const nodes = useNodes();
  // Only an agent makes host volumes; without the right to list agents, every node is offered.
  const agents = useResource(
    ["agents-of"],
    async (signal) => new Set((await api("GET /v1/agents", { quiet: true, signal })).map(({ NodeID }) => NodeID)),
    { skip: !isHost },
  );
  const plugins = usePlugins(isHost, nodes);
  const [value, setValue] = useState<FormValue>(
    draft.value ?? (isHost && how === "create" ? { PluginID: "mkdir" } : {}),
  );
  const [id, setId] = useState("");
  const [capabilities, setCapabilities] = useState<readonly Capability[]>([FIRST_CAPABILITY]);
  const [sizes, setSizes] = useState({ min: "", max: "" });
  const [overrides, setOverrides] = useState(false);
  const [namespace, setNamespace] = useState(clusterNamespace.value === "*" ? "default" : clusterNamespace.value);
  // A volume that exists is registered through a node: the first one that can do it, unless the person chooses another.
  const offered = isHost && agents.value ? nodes.filter(({ ID }) => agents.value?.has(ID)) : nodes;
  const capable = how === "register" ? offered.find(({ Version, Status }) => Version && Status === "ready") : undefined;
  const nodeId = String(value["NodeID"] ?? capable?.ID ?? "");

  const name = String(value["Name"] ?? "");
  const volume: FormValue = {
    ...value,
    ...(nodeId ? { NodeID: nodeId } : {}),
    ...(isHost ? {} : { ID: id || name }),
    RequestedCapabilities: capabilities,
    ...sizesOf(isHost, how, sizes),
  };
  const override = overrides ? { PolicyOverride: true } : {};
  const send = useAction(async () => {
    if (isHost) {
      const op = how === "create" ? "PUT /v1/volume/host/create" : "PUT /v1/volume/host/register";
      const { Volume, Warnings } = await api(op, { namespace, body: { Volume: volume, ...override } });
      finish(Warnings, `The volume ${Volume.Name} is ${how === "create" ? "created" : "registered"}.`);
      go(hostVolumeHref(Volume.ID, namespace));
      return;
    }
    const options = {
      path: { id: String(volume["ID"]) },
      namespace,
      body: { Volumes: [volume], ...override },
      sensitive: "Secrets" in volume,
    };
    const { Warnings } = await (how === "create"
      ? api("PUT /v1/volume/csi/{id}/create", options)
      : api("PUT /v1/volume/csi/{id}", options));
    finish(Warnings, `The volume ${options.path.id} is ${how === "create" ? "created" : "registered"}.`);
    go(csiVolumeHref(options.path.id, namespace));
  });
  const finish = (warnings: string, text: string): void => {
    toast(text);
    if (warnings) toast(warnings, "warn");
    onClose();
  };
  const isDenied =
    send.error instanceof ApiError && send.error.messages.some((text) => text.includes("soft-mandatory"));
  const isUpsideDown = Boolean(sizes.max) && (bytesOf(sizes.max) ?? 0) < (bytesOf(sizes.min) ?? 0);
  const isReady =
    !isUpsideDown &&
    (how === "create" || nodeId !== "") &&
    (isHost ? how === "create" || Boolean(value["HostPath"]) : Boolean(volume["ID"] && value["PluginID"])) &&
    bytesOf(sizes.min) !== null &&
    bytesOf(sizes.max) !== null;
  const texts = TEXTS[kind];
  const title = TITLES[kind][how];
  return (
    <Dialog
      title={title}
      shape="side"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            type="submit"
            form="volume"
            isBusy={send.isBusy}
            disabled={!isReady}
            needs={isHost ? `PUT volume/host/${how}` : "PUT volume/csi/*"}
          >
            {how === "create" ? "Create volume" : "Register volume"}
          </Button>
        </>
      }
    >
      <form
        id="volume"
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) void send.run();
        }}
      >
        <TextField
          label="Name"
          required
          autofocus
          mono
          value={name}
          onChange={(entered) => setValue({ ...value, Name: entered })}
          hint={`${isHost ? "Jobs ask for the volume by this name." : "The plugin makes the volume under this name."}${
            /^[\w.-]*$/.test(name) ? "" : " It has spaces or signs, which commands and job files have to quote."
          }`}
        />
        {!isHost && (
          <TextField
            label="ID"
            mono
            value={id}
            placeholder={name}
            onChange={setId}
            hint="Jobs ask for the volume by this ID. Left empty, it is the name."
          />
        )}
        {clusterNamespace.value === "*" && (
          <TextField label="Namespace" mono required value={namespace} onChange={setNamespace} />
        )}
        {(isHost || how === "register") && (
          <SelectField
            label="Node"
            required={how === "register"}
            value={nodeId}
            onChange={(entered) => setValue(withField(value, "NodeID", entered))}
            options={[
              { value: "", label: how === "register" ? "Choose a node" : "Any that can do it" },
              ...offered.map((node) => ({ value: node.ID, label: `${node.Name} (${node.Status})` })),
            ]}
          />
        )}
        {!isHost && (
          <SelectField
            label="Plugin"
            required
            value={String(value["PluginID"] ?? "")}
            onChange={(entered) => setValue(withField(value, "PluginID", entered))}
            hint={plugins.length === 0 ? "No node runs a CSI plugin, or your token may not list them." : ""}
            options={[
              { value: "", label: "Choose a plugin" },
              ...plugins.map((plugin) => ({ value: plugin, label: plugin })),
            ]}
          />
        )}
        {how === "create" ? (
          <>
            <SizeField
              label="Capacity, at least"
              value={sizes.min}
              onChange={(min) => setSizes({ ...sizes, min })}
              hint="Left empty, the plugin decides."
            />
            <SizeField
              label="Capacity, at most"
              value={sizes.max}
              onChange={(max) => setSizes({ ...sizes, max })}
              hint="Left empty, there is no bound."
              error={isUpsideDown ? `Less than the least capacity, ${sizes.min}.` : undefined}
            />
          </>
        ) : (
          isHost && (
            <SizeField
              label="Capacity"
              value={sizes.min}
              onChange={(min) => setSizes({ ...sizes, min })}
              hint="The free space, as text for readers."
            />
          )
        )}
        <Capabilities kind={kind} value={capabilities} onChange={setCapabilities} />
        <SchemaForm
          key={plugins.join(" ")}
          schema={schemaOf(kind)}
          value={value}
          onChange={setValue}
          hidden={HIDDEN[kind][how]}
          advanced={ADVANCED}
          first={["HostPath", "ExternalID", "PluginID", "Parameters"]}
          texts={isHost ? { ...texts, PluginID: { ...texts["PluginID"], list: plugins } } : texts}
        />
        {isDenied && (
          <Checkbox
            label="Override soft rules"
            hint="Needs the right policy-override. Rules that are hard still hold."
            checked={overrides}
            onChange={setOverrides}
          />
        )}
      </form>
      {send.error !== null && <ErrorPanel error={send.error} />}
      <AsCommand request={preview(kind, how, volume, namespace, override)} />
    </Dialog>
  );
}

function preview(
  kind: Draft["kind"],
  how: Draft["how"],
  { Secrets, ...rest }: FormValue,
  namespace: string,
  override: object,
): WireRequest {
  const volume = Secrets ? { ...rest, Secrets: withoutValues(Secrets) } : rest;
  if (kind === "host")
    return wireRequest(how === "create" ? "PUT /v1/volume/host/create" : "PUT /v1/volume/host/register", {
      namespace,
      body: { Volume: volume, ...override },
    });
  const options = { path: { id: String(volume["ID"]) }, namespace, body: { Volumes: [volume], ...override } as never };
  return how === "create"
    ? wireRequest("PUT /v1/volume/csi/{id}/create", options)
    : wireRequest("PUT /v1/volume/csi/{id}", options);
}

const withField = (value: FormValue, name: string, entered: string): FormValue => {
  const { [name]: _, ...rest } = value;
  return entered === "" ? rest : { ...rest, [name]: entered };
};

function sizesOf(isHost: boolean, how: Draft["how"], sizes: { readonly min: string; readonly max: string }): FormValue {
  const [min, max] = [bytesOf(sizes.min), bytesOf(sizes.max)];
  if (how === "register") return isHost && min ? { CapacityBytes: min } : {};
  const suffix = isHost ? "Bytes" : "";
  return {
    ...(min ? { [`RequestedCapacityMin${suffix}`]: min } : {}),
    ...(max ? { [`RequestedCapacityMax${suffix}`]: max } : {}),
  };
}

const HOST_PLUGIN = /^plugins\.host_volume\.(.+)\.version$/;

/** Ids of plugins to choose from: CSI plugins, or the host-volume plugins of the first nodes with an agent. */
function usePlugins(isHost: boolean, nodes: ReturnType<typeof useNodes>): readonly string[] {
  const asked = isHost
    ? nodes
        .filter(({ Version, Status }) => Version && Status === "ready")
        .slice(0, 5)
        .map(({ ID }) => ID)
    : [];
  const found = useResource(["plugins-of", isHost, asked], async (signal) => {
    if (!isHost) {
      const list = await api("GET /v1/plugins", { query: { type: "csi" }, quiet: true, signal });
      return list.map(({ ID }) => ID);
    }
    const read = await Promise.all(asked.map((id) => api("GET /v1/node/{id}", { path: { id }, quiet: true, signal })));
    const names = read.flatMap(({ Attributes }) =>
      Object.keys(Attributes).flatMap((name) => HOST_PLUGIN.exec(name)?.[1] ?? []),
    );
    return [...new Set(["mkdir", ...names])];
  });
  return found.value ?? (isHost ? ["mkdir"] : []);
}
