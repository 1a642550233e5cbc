#!/usr/bin/env python3
"""make_sbom.py NAME VERSION LINKED > FILE: what a package is made of, in SPDX 2.3.

LINKED has a line "name version" for each Debian package, binary or source, that is linked.
"""

import json
import os
import sys
import time
from pathlib import Path


def package(name, version, of_debian):
    entry = {
        "SPDXID": f"SPDXRef-{name.replace('+', '-')}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION" if of_debian else "Apache-2.0",
        "copyrightText": "NOASSERTION",
    }
    if of_debian:
        entry["externalRefs"] = [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{name}@{version}",
        }]
    return entry


def main():
    name, version, linked = sys.argv[1:]
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))
    own = package("thinwire", version, of_debian=False)
    others = [package(*line.split(), of_debian=True) for line in Path(linked).read_text().splitlines()]
    print(json.dumps({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": f"urn:thinwire:{name}:{when}",
        "creationInfo": {"created": when, "creators": ["Tool: tools/package.sh"]},
        "packages": [own, *others],
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own["SPDXID"]},
            *({"spdxElementId": own["SPDXID"], "relationshipType": "STATIC_LINK", "relatedSpdxElement": other["SPDXID"]}
              for other in others),
        ],
    }, indent=1))


main()
