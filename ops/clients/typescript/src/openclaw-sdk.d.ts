/** What is used of OpenClaw, which brings it: its package is not installed with the client. */
declare module "openclaw/plugin-sdk/plugin-entry" {
  interface Api {
    pluginConfig?: any;
    logger: { info(text: string): void; warn(text: string): void; error(text: string): void };
    resolvePath(path: string): string;
    registerHook(event: string, handler: (event: any) => void, options: { name: string; description: string }): void;
    on(hook: string, handler: (event: any, ctx: any) => unknown): void;
  }
  export function definePluginEntry(entry: { id: string; name: string; description: string; register(api: Api): void }): unknown;
}
