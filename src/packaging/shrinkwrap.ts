/** An entry of a lock file: the keys that are used here. */
interface LockedPackage {
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
}

export interface LockFile {
  packages: Record<string, LockedPackage>
}

export interface Manifest extends LockedPackage {
  name: string
  version: string
}

/**
 * Returns the shrinkwrap of a package: from the lock file of the project, the entries that its dependencies need, with
 * the same versions and hashes.
 */
export function shrinkwrap({ packages }: LockFile, manifest: Manifest) {
  const needed = new Set<string>()
  const visit = (place: string, { dependencies, optionalDependencies, peerDependencies }: LockedPackage) => {
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })) {
      const found = resolvePackage(packages, place, name)
      if (found === undefined || needed.has(found)) continue
      needed.add(found)
      visit(found, packages[found] ?? {})
    }
  }
  visit('', manifest)
  const { name, version } = manifest
  return {
    name,
    version,
    lockfileVersion: 3,
    requires: true,
    packages: {
      '': manifest,
      ...Object.fromEntries([...needed].sort().map((place) => [place, packages[place]])),
    },
  }
}

/** Returns where `name` is found from `place`: in the nearest `node_modules` on the way up; undefined when it is nowhere. */
function resolvePackage(packages: LockFile['packages'], place: string, name: string): string | undefined {
  for (let folder = place; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
    const candidate = `${folder && `${folder}/`}node_modules/${name}`
    if (candidate in packages) return candidate
    if (folder === '') return undefined
  }
}
