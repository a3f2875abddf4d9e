declare module "postject" {
  /** Puts a resource into an executable file. */
  export function inject(
    filename: string,
    resourceName: string,
    resourceData: Buffer,
    options?: { sentinelFuse?: string },
  ): Promise<void>;
}
