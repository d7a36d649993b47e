"""The account: clients by the user's own credentials, and the way to its MQTT broker."""

import datetime
import email.utils
import hashlib
import hmac
import os
import time
import urllib.parse

import boto3
import botocore.exceptions
from botocore.config import Config

from deployed import Broker

# How long a signed address of the broker can be used, in seconds.
SIGNED_SECONDS = 300
# By how much this machine's clock may differ from AWS' for the bounds to mean anything, in seconds.
CLOCK_SKEW_MAX = 2.0


class Refused(Exception):
    """The run does not begin; the message says why and what would help. Exit code 2."""


class Account:
    """Clients of one profile. Where AWS_ENDPOINT_URL is set they speak to that address: an emulator, which certifies nothing."""

    def __init__(self, profile: str | None, region: str | None) -> None:
        try:
            self._session = boto3.session.Session(profile_name=profile)
        except botocore.exceptions.ProfileNotFound as error:
            raise Refused(f"{error}: name one of ~/.aws/config with --profile") from None
        self.region = region or self._session.region_name
        if not self.region:
            raise Refused("no region: give --region, or set AWS_REGION or the profile's region")
        self.emulated = os.environ.get("AWS_ENDPOINT_URL")
        self._clients: dict = {}

    def identity(self) -> str:
        """The account's number, after a look whether the credentials are any good and the clock is right."""
        if self._session.get_credentials() is None:
            raise Refused("no credentials: sign in (aws sso login, aws configure), or name a profile with --profile")
        try:
            answer = self.client("sts", self.region).get_caller_identity()
        except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError) as error:
            raise Refused(f"the credentials are refused: {error}") from None
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        skew = time.time() - email.utils.parsedate_to_datetime(date).timestamp() if date else 0.0
        # The header has whole seconds.
        if not -CLOCK_SKEW_MAX < skew < CLOCK_SKEW_MAX + 1:
            raise Refused(f"this machine's clock is {skew:.0f}s off AWS': the bounds could not be measured; set it right")
        return answer["Account"]

    def client(self, service: str, region: str):
        """A client of a service in a region."""
        if (service, region) not in self._clients:
            more = {}
            if service == "iot-data" and not self.emulated:
                more["endpoint_url"] = f"https://{self._broker_name(region)}"
            self._clients[service, region] = self._session.client(
                service, region_name=region, config=Config(retries={"max_attempts": 4, "mode": "standard"}, read_timeout=90), **more,
            )
        return self._clients[service, region]

    def _broker_name(self, region: str) -> str:
        return self.client("iot", region).describe_endpoint(endpointType="iot:Data-ATS")["endpointAddress"]

    def broker(self, region: str) -> Broker:
        """How to reach the MQTT broker: a WebSocket whose address is signed."""
        credentials = self._session.get_credentials().get_frozen_credentials()
        now = datetime.datetime.now(datetime.timezone.utc)
        if self.emulated:
            # It knows its broker by a host's name, and takes the region from the signature.
            name, address = f"certify-ats.iot.{region}.amazonaws.com", urllib.parse.urlsplit(self.emulated)
            return Broker(address.hostname, address.port, False, signed_path(name, region, credentials, now), name)
        name = self._broker_name(region)
        return Broker(name, 443, True, signed_path(name, region, credentials, now), name)


def signed_path(host: str, region: str, credentials, now: datetime.datetime) -> str:
    """The path of the broker's WebSocket, signed with Signature Version 4; IoT wants a session's token after the signature."""
    moment, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    scope = f"{day}/{region}/iotdevicegateway/aws4_request"
    query = urllib.parse.urlencode(
        {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{credentials.access_key}/{scope}", "X-Amz-Date": moment,
            "X-Amz-Expires": str(SIGNED_SECONDS), "X-Amz-SignedHeaders": "host",
        },
        quote_via=urllib.parse.quote, safe="-_.~",
    )
    request = "\n".join(["GET", "/mqtt", query, f"host:{host}", "", "host", hashlib.sha256(b"").hexdigest()])
    to_sign = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{credentials.secret_key}".encode()
    for part in (day, region, "iotdevicegateway", "aws4_request", to_sign):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    token = f"&X-Amz-Security-Token={urllib.parse.quote(credentials.token, safe='')}" if credentials.token else ""
    return f"/mqtt?{query}&X-Amz-Signature={key.hex()}{token}"
