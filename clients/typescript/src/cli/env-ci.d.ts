declare module 'env-ci' {
  /** What env-ci finds; a service gives only some of it. */
  export default function envCi(options: { env: NodeJS.ProcessEnv; cwd: string }): {
    isCi: boolean
    name?: string
    commit?: string
    slug?: string
    jobUrl?: string
    buildUrl?: string
  }
}
