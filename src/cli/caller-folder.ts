/** Returns the folder in which the caller started the command; npm runs scripts in the project's folder. */
export function callerFolder(): string {
  return process.env.INIT_CWD ?? process.cwd()
}
